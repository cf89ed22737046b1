// Package jobset plays a public operator, kubernetes-sigs/jobset, unmodified, under the disturbances of
// controller/simulate: v0.10.1, two bugs of which must be found, and v0.12.0, which must have no findings.
// It has no code of its own.
//
// go.mod of internal/e2e requires v0.12.0, and TestOldJobSet of package upstream builds the tests here
// with v0.10.1 and the tag jobset010. The variable makes both play all schedules, in minutes:
//
//	KUBEREFLECTOR_ALL_SCHEDULES=1 go test -C internal/e2e -timeout 20m ./upstream/jobset
//	KUBEREFLECTOR_ALL_SCHEDULES=1 go test -C internal/e2e -timeout 20m -run '^TestOldJobSet$' ./upstream
package jobset
