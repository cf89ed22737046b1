// Package deepcopy copies objects of any type: custom resources need no generated code.
package deepcopy
