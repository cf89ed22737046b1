package apiserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
)

// CompactEtcd compacts etcd to a resource version, or to its newest one if the argument is empty.
// It returns when etcd has finished.
//
// Requests that only etcd can answer then get 410 Expired: a list at exactly an older version, and
// the next page of such a list. Watches still work, because kube-apiserver answers them from its
// watch cache: see [Server.Forget].
func (s *Server) CompactEtcd(ctx context.Context, resourceVersion string) error {
	var err error
	if resourceVersion == "" {
		if resourceVersion, err = s.newest(ctx); err != nil {
			return fmt.Errorf("compact etcd: %w", err)
		}
	}
	// A resource version is a revision of etcd. It is written as a string in JSON, as every 64-bit number of its protocol.
	request := struct {
		Revision string `json:"revision"`
		Physical bool   `json:"physical"` // wait until it is done
	}{resourceVersion, true}
	if err := s.askEtcd(ctx, "/v3/kv/compaction", request, nil); err != nil {
		return fmt.Errorf("compact etcd to revision %s: %w", resourceVersion, err)
	}
	return nil
}

// Forget removes all history from the server, so that a watch from any older version gets 410
// Expired. It compacts etcd to its newest revision and restarts kube-apiserver, as after
// [Server.KillAPIServer]. Without the restart, the watch cache would go on serving older changes.
// The flag watch-cache=false would do as well, but would make a server that no cluster has.
func (s *Server) Forget(ctx context.Context) error {
	if err := s.KillAPIServer(); err != nil {
		return err
	}
	// Write a change that no client has seen, so that every version that a client knows is an old
	// one.
	request := map[string][]byte{"key": []byte("/kubereflector/past"), "value": nil}
	if err := s.askEtcd(ctx, "/v3/kv/put", request, nil); err != nil {
		return errors.Join(fmt.Errorf("make a new revision of etcd: %w", err), s.StartAPIServer())
	}
	return errors.Join(s.CompactEtcd(ctx, ""), s.StartAPIServer())
}

// newest returns the revision of etcd's last change.
func (s *Server) newest(ctx context.Context) (string, error) {
	var answer struct {
		Header struct{ Revision string }
	}
	if err := s.askEtcd(ctx, "/v3/kv/range", map[string]any{"key": []byte{0}, "count_only": true}, &answer); err != nil {
		return "", fmt.Errorf("ask for the newest revision: %w", err)
	}
	if _, err := strconv.ParseInt(answer.Header.Revision, 10, 64); err != nil {
		return "", fmt.Errorf("ask for the newest revision: %w", err)
	}
	return answer.Header.Revision, nil
}

// askEtcd sends a JSON request to etcd, at the same address as gRPC. An etcd client would add two
// modules.
func (s *Server) askEtcd(ctx context.Context, path string, request, answer any) error {
	body, err := json.Marshal(request)
	if err != nil {
		return err
	}
	asked, err := http.NewRequestWithContext(ctx, http.MethodPost, s.plane.Etcd.URL.JoinPath(path).String(), bytes.NewReader(body))
	if err != nil {
		return err
	}
	asked.Close = true // no connection may be left for a test to count as its own leak
	answered, err := http.DefaultClient.Do(asked)
	if err != nil {
		return err
	}
	defer answered.Body.Close()
	body, err = io.ReadAll(answered.Body)
	switch {
	case err != nil:
		return err
	case answered.StatusCode != http.StatusOK:
		return fmt.Errorf("%s: %s", answered.Status, bytes.TrimSpace(body))
	case answer == nil:
		return nil
	}
	return json.Unmarshal(body, answer)
}
