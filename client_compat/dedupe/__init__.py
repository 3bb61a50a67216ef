"""A recipe: an aiokafka consumer that processes each business key once, whoever sent it how often. See README.md."""
