"""How a model is exercised: scenarios, inputs, arrivals."""
