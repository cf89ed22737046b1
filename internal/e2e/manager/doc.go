// Package manager holds the packages that controller programs are made with, manager, write,
// recorder and mapper, to a real kube-apiserver. It has no code of its own.
package manager
