// Package restguard protects the REST clients of this module from servers that are not what they
// should be: from a redirect that takes the credentials to another server, and from a refusal, or
// an answer of discovery, whose body does not end. And it protects servers from questions that are
// repeated too often, see [Pace], and from a connection for each watch: see [FewConnections].
package restguard
