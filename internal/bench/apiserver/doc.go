// Package apiserver is an API server that costs little CPU time. It sends encoded objects, in which
// it changes only the resource version. Connections are neither encrypted nor compressed.
//
// The data sets are pods of about 8.5 kB of JSON or 5.8 kB of protobuf, as templates or with nothing
// in common, and pods, Secrets and ConfigMaps as in real clusters, and custom resources.
package apiserver
