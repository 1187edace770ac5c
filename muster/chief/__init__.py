"""Delivery of messages to the owner's chief agent, and the chief's tools."""
