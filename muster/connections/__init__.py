"""Connected clients, whatever they are: agents and mirror hosts."""
