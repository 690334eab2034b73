"""Choice of parameters: leave-one-out, GACV, paths, radius-margin tuning, bounds, margins."""
