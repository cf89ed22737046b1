//go:build newest

package mapper

import "k8s.io/apimachinery/pkg/api/meta"

// Kubernetes has this interface since 0.37.
var _ meta.ResettableRESTMapperWithContext = (*Mapper)(nil)
