"""The whole cluster on one loop, with a clock, a network and disks of its own: everything that happens follows from a seed."""
