package storetest_test

import "testing"

func TestSuiteOfTheExample(t *testing.T) { suite(t) }
