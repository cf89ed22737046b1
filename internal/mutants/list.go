package main

import "slices"

// mutants are in one file for each layer.
var mutants = slices.Concat(storeMutants, reflectorMutants, informerMutants, controllerMutants)
