"""How much clients use, and how long they have to wait when that is more than their quotas allow. Pure: time is an argument."""
