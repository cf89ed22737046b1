// Package network puts a faulty network between a client and a server. A [Line] forwards TCP connections, and does to them what a [Fault] says: it
// closes, resets, stalls, delays or truncates them, wherever in a TLS record or frame that is.
//
// Its tests run informers over a Line to a real kube-apiserver. Each fault has a row that says what must be noticed, and how many requests it may cost.
package network
