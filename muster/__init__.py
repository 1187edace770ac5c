"""muster: a desk between a person, the agents that work for them and the systems that write."""
