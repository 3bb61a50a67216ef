"""SIGKILLs of a broker under share load: no accepted record is delivered again, and none is lost."""
