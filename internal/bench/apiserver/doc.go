// Package apiserver is an API server that costs little CPU time, and the smallest possible clients
// of it. Benchmarks start it in a process of its own.
//
// The server replays canned objects. They are pods of about 8.5 kB of JSON or 5.8 kB of protobuf, as
// templates or with nothing in common. Other data sets are pods, Secrets and ConfigMaps as in real
// clusters, and custom resources. A changed object differs only in its resource version, so the
// server only copies bytes.
//
// Connections are neither encrypted nor compressed.
package apiserver
