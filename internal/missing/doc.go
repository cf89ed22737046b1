// Package missing tells what the 404 of a server says: that an object does not exist, that the server has
// no such path, or that an admission webhook missed something else.
package missing
