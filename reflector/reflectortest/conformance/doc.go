// Package conformance says in tables what an API server answers: to lists,
// pages, versions, selectors, watches, bookmarks, shards, compactions, conflicts,
// finalizers and patches. The same tables are run against reflectortest and
// against kube-apiserver; where they differ the double is wrong.
//
// # Tables
//
// A table is a file in testdata. A line is a request or what is expected of it:
//
//	POST /api/v1/namespaces/$ns/configmaps {"metadata":{"name":"a"}}
//	201 {"metadata":{"name":"a","resourceVersion":"$created"}}
//
// Lines that begin with > before a request are its headers. A request without a
// Content-Type has application/json, or a merge patch's for PATCH. The expected
// JSON is a part of the answer: fields that it does not name are not looked at,
// null means absent, "*" anything, "%text" a string with text in it, and an array
// has all of its elements. "$name" keeps a value under a name, or compares with
// the one kept. $ns is a namespace of the table's own.
//
//	UNTIL GET /apis/example.com/v1/things 404              repeats a request until the answer is the expected one
//	HEADER ETag: $etag                                     compares or keeps a header of the answer
//	WATCH w /api/v1/namespaces/$ns/configmaps?watch=1      opens a watch
//	EVENT w {"type":"ADDED"}                               takes its next event
//	END w                                                  waits for its orderly end
//	CLOSE w                                                gives it up
//	NEWER $b $a                                            compares two versions
//	TOKEN $t {"v":"meta.k8s.io/v1","rv":1,"start":"a"}     makes a continue token
//	LETTERS $long 1024                                     keeps a text of so many letters
//	SHARD $in $out uid $a                                  makes selectors of the shard with a hash, and of the rest
//	COMPACT                                                forgets the history so far
package conformance
