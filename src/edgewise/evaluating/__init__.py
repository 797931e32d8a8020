"""Is the model right? Data sets, what is done to a sample before it is fed, and what outputs are worth."""
