"""The radius-margin bound of M-SVM^2, the smallest enclosing sphere, and the search over both."""
