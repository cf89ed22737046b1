package write

import "github.com/kubereflector/kubereflector/internal/deepcopy"

// Copy returns a deep copy of an object of any type. It calls DeepCopyObject if T has it and it
// returns a T. It copies other types by reflection, and calls DeepCopy or DeepCopyInto of each part
// that has it, as code generators make them. The copy shares two things with the original:
// functions and channels, and the targets of unexported fields in structs without such a method. An
// object that contains itself is not supported.
func Copy[T any](object T) T { return deepcopy.Of(object) }
