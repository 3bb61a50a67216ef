"""A recipe: an aiokafka consumer that applies each business key once, even if several producers send it repeatedly. See README.md."""
