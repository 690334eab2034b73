"""Why a model decides as it does: contributions, certified radii, counterfactuals."""
