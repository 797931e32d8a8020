// What every page of the studio needs. Pages read, and forms work, without it.
