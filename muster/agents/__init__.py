"""Agent rows and the gateway that agents connect to."""
