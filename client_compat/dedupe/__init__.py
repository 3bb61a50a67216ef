"""A recipe for applications: an aiokafka consumer that applies each business key (such as a payment's number) once, even if several
producers send it repeatedly. See README.md."""
