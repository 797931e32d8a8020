"""The memory: records in a database, their codec, upgrades and exchange."""
