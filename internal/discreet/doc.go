// Package discreet has the texts of errors about objects. Such a text may end up in a log, so it must
// quote no value of an object, which may be a Secret. Names of fields and Go types may be in it. The same holds
// for a panic: its text has the function that panicked and the type of the value.
package discreet
