"""Power meters that print lines, beside the host: ports, line formats, and the LPM01A."""
