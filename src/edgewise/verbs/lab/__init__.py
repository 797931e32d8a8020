"""What ``lab`` and ``sweep --lab`` do: jobs for the devices of many hosts, in the database of a team's store."""
