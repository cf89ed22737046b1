package docscheck

import (
	"fmt"
	"maps"
	"slices"
)

// exports counts the exported names of a package, and the exported methods of its exported types.
type exports struct{ names, methods int }

// budgets holds the allowed exports of each package. Lower a number when a package exports less.
// Raise one only with a reason in the commit.
var budgets = map[string]exports{
	"contrib/controllerruntime":           {6, 4},
	"contrib/otel":                        {5, 2},
	"contrib/prometheus":                  {7, 6},
	"contrib/prometheus/rulestest":        {0, 0},
	"controller":                          {15, 2},
	"controller/leader":                   {7, 4},
	"controller/manager":                  {30, 17}, // WithClientOptions: most programs leave out managed fields
	"controller/reconcile":                {30, 8},  // EnqueueEvent: events of informers that come and go must not end a back-off as Enqueue does; OnUncalled is for refer alone
	"controller/recorder":                 {7, 5},
	"controller/refer":                    {4, 1},
	"controller/shard":                    {27, 11},
	"controller/simulate":                 {17, 0}, // Call: effects outside of the cluster have no request that a run could see; Jobs, Pods, StatefulSets, DaemonSets: operators wait for what their controllers do; Wait: some act by the clock
	"controller/write":                    {22, 1},
	"eventqueue":                          {36, 44}, // AddResync needs no bool in Add; Left and IsClosed answer what callers asked Drain and Take with an ended context
	"eventqueue/eventqueuetest":           {9, 3},
	"informer":                            {32, 40}, // a cleanup asks Gone first; LearnScope asks where its key is; WithGet is for clients that select by themselves; CacheReady is for fleet alone
	"informer/fleet":                      {28, 17}, // reasons why a kind is not served are names; Stopped makes a manager end it last
	"informer/scoped":                     {5, 2},
	"informer/clientgo":                   {34, 41}, // NewReflectorWithOptions is the one line of programs with a store of their own; NewSharedInformer has client-go's name; WithShallowTransform spares a copy, WithLocalWrites is for tests with a server of their own
	"informer/inspect":                    {18, 4},
	"informer/ondemand":                   {18, 10},
	"reflector":                           {41, 17}, // LearnScope asks what ClusterScoped tells; OnChange spares a goroutine for each informer; a selected object that is missing is looked up; Polling is a phase of its own; ListTypeError shows its method
	"reflector/mapper":                    {9, 20},  // callers tell a group that does not answer from a failure as a whole
	"reflector/reflectortest":             {45, 34}, // WithCustomResourceDefinitions and ListKind: kinds that come and go have no Go type; WithAdmission takes a value of a type; WithStableUIDs: operators make names of UIDs; StoredObject, ParseRequest and CollectGarbage: a simulation compares and drives any kind
	"reflector/reflectortest/conformance": {5, 0},   // Gadgets: defaults need a schema of their own
	"store":                               {47, 65}, // a part without a list lacks every write, so it says Synced; WriteUnannounced is for clientgo alone
	"store/await":                         {6, 2},
	"contrib/compact":                     {12, 28},
	"store/guard":                         {9, 7},
	"contrib/persist":                     {24, 25},
	"store/storetest":                     {5, 6}, // RunBatches fails without batches, where Run skipped them
	"reflector/record":                    {15, 14},
	"reflector/answer":                    {5, 7},
	"reflector/client":                    {37, 25}, // SharesParts: who edits objects must know; DiscoveryError, with Unwrap; write needs GetJSON; Adapter shows the methods of a reflector.Client, and its namespace
	"informer/clientgo/factory":           {11, 0},
	"informer/clientgo/dynamicinformer":   {5, 0}, // the names of client-go
	"informer/clientgo/metadatainformer":  {8, 0}, // the names of client-go
}

// Budgets returns one line for each package whose exports differ from its budget.
func Budgets(r *Repository) []string { return compareBudgets(r, budgets) }

func compareBudgets(r *Repository, budgets map[string]exports) []string {
	found := map[string]exports{}
	for _, source := range r.sources {
		if source.isTest() {
			continue
		}
		n := found[source.folder()]
		for _, symbol := range symbols(source.File) {
			switch {
			case !symbol.exported():
			case symbol.kind == method:
				n.methods++
			default:
				n.names++
			}
		}
		found[source.folder()] = n
	}
	var problems []string
	for _, name := range slices.Sorted(maps.Keys(budgets)) {
		got, want := found[name], budgets[name]
		problems = append(problems, compareBudget(name, "names", got.names, want.names)...)
		problems = append(problems, compareBudget(name, "methods", got.methods, want.methods)...)
	}
	return problems
}

func compareBudget(name, what string, got, want int) []string {
	switch {
	case got > want:
		return []string{fmt.Sprintf("%s exports %d %s, %d more than its budget: unexport some, or raise the budget with a reason", name, got, what, got-want)}
	case got < want:
		return []string{fmt.Sprintf("%s exports %d %s: lower its budget from %d", name, got, what, want)}
	}
	return nil
}
