package client

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apiversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/rest"
)

// consistentMinor is the minor version of Kubernetes 1 from which the API server answers lists of
// the newest state in pages from its watch cache (KEP-4988). Before, such a list with a limit cost a
// read of etcd.
const consistentMinor = 34

// listsConsistently asks a server for its version. A server that refuses or says something else counts
// as an older one. An error means that the server did not answer, for example because it is about to
// start. Of an aggregated API, this is the version of the API server in front of it: if the extension
// server itself is older, its lists are consistent all the same, and only cost more.
func listsConsistently(ctx context.Context, client rest.Interface) (bool, error) {
	const most = 64 << 10
	answer, err := client.Get().AbsPath("/version").SetHeader("Accept", mediaJSON).MaxRetries(0).Stream(ctx)
	var status apierrors.APIStatus
	if errors.As(err, &status) && status.Status().Code < http.StatusInternalServerError && !apierrors.IsTooManyRequests(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer func() { _ = answer.Close() }()
	var info apiversion.Info
	if json.NewDecoder(io.LimitReader(answer, most)).Decode(&info) != nil {
		return false, nil
	}
	// A server that emulates an older version also behaves like it.
	major, known := number(cmp.Or(info.EmulationMajor, info.Major))
	minor, ok := number(cmp.Or(info.EmulationMinor, info.Minor))
	return known && ok && (major > 1 || major == 1 && minor >= consistentMinor), nil
}

// number reads a part of a version, such as "34" or the "34+" of some vendors.
func number(part string) (int, bool) {
	n, err := strconv.Atoi(strings.TrimSuffix(part, "+"))
	return n, err == nil && n >= 0
}
