"""What is solved: machines, kernels, labels and weights, the training problem itself."""
