package main

import (
	"errors"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// step is a step of the tour. It teaches one idea.
type step struct {
	Title  string
	Answer string // to the question of the step before
	Text   string
	Ask    string // what the reader may predict before the next step
	Series link
	Type   link // a type of the library
	Docs   link
	shows  []string // names of handlers
	acts   []act
}

// link leads to a page of the repository, or to a type on pkg.go.dev.
type link struct{ Text, to string }

// Address returns the address of the link.
func (l link) Address() string {
	if strings.HasPrefix(l.to, "docs/") {
		return "https://github.com/kubereflector/kubereflector/blob/main/" + l.to
	}
	return "https://pkg.go.dev/github.com/kubereflector/kubereflector/" + l.to
}

// act is what happens in a step, and what the page then shows at once.
type act struct {
	text string
	// does is what happens in the world. It is not called in a replay if it happens at the server.
	does     func(*world) error
	atServer bool
}

func server(text string, does func(*world) error) act { return act{text, does, true} }

func create(name string) act {
	return server(name+" is created.", func(w *world) error { return w.server.Create(pod(name, corev1.PodRunning, 0)) })
}

func change(name string, restarts int) act {
	return server(name+" changes.", func(w *world) error { return w.server.Update(pod(name, corev1.PodRunning, restarts)) })
}

func remove(name string) act {
	return server(name+" is deleted.", func(w *world) error { return w.server.Delete(pod(name, "", 0)) })
}

// turn lets the slow handlers end their calls.
var turn = act{text: "The slow call ends.", does: func(w *world) error { w.turn(); return nil }}

var silence = server("The API server ends the watch, and answers no request.", (*world).silence)

var (
	one   = []string{"quick"}
	two   = []string{"quick", "slow"}
	three = []string{"quick", "slow", clientGo}
	fussy = []string{"quick", "picky"}
)

// names are those of all pods.
var names = []string{"web", "blue", "leaf", "moon"}

// clientGo is the name of the lane of client-go’s slow handler.
const clientGo = "client-go"

// script is the life of a few pods.
var script = []step{
	{
		Title:  "Three pods",
		Text:   "The API server has three pods, and nothing has read them. The informer below it does not run yet. It will keep a copy of the pods in its cache, and call the handler quick when one changes.",
		Ask:    "Next, the informer starts. The handler was not there when the pods were created. What will it get?",
		Series: link{"Part 0: messages", "docs/series/part-00-messages.md"},
		Type:   link{"informer.Informer", "informer#Informer"},
		Docs:   link{"Your first informer", "docs/start/first-informer.md"},
		shows:  one,
		acts: []act{server("The API server has three pods.", func(w *world) error {
			return errors.Join(create("web").does(w), create("blue").does(w), create("leaf").does(w))
		})},
	},
	{
		Title:  "The first list",
		Answer: "An Addition of each pod, marked as initial.",
		Text:   "The reflector asked for a watch that begins with all pods, and wrote them into the cache in one commit. For a handler that starts, every pod is news.",
		Ask:    "Next, web changes at the API server. What will quick get?",
		Series: link{"Part 1: list, watch, store, reflector", "docs/series/part-01-list-and-watch.md"},
		Type:   link{"reflector.KubernetesResourceReflector", "reflector#KubernetesResourceReflector"},
		Docs:   link{"Run, and wait for the first list", "docs/start/first-informer.md#run-and-wait-for-the-first-list"},
		shows:  one,
		acts:   []act{{text: "The informer starts.", does: func(w *world) error { w.start(); return nil }}},
	},
	{
		Title:  "A change travels",
		Answer: "A Modification with both states, the one before the change and the one after it.",
		Text:   "The informer sent no request: the open watch brought the new state. The cache has it before the handler does, so a handler that reads the cache never finds an older state than that of its event.",
		Ask:    "Next, a second handler, slow, joins the running informer. The tour decides how long each of its calls lasts. What will it get?",
		Series: link{"Part 5: the whole picture", "docs/series/part-05-the-whole-picture.md"},
		Type:   link{"eventqueue.Event", "eventqueue#Event"},
		Docs:   link{"Terms: events", "docs/reference/glossary.md#events"},
		shows:  one,
		acts:   []act{change("web", 1)},
	},
	{
		Title:  "A handler joins late",
		Answer: "An Addition of each pod, from the cache: the API server was not asked again.",
		Text:   "Each handler has an event queue of its own. slow is in its first call, so two pods wait in its queue. quick notices nothing of this.",
		Ask:    "Next, slow ends this call and the next one, and is in its third. Then blue changes. What will slow get now?",
		Series: link{"Part 6: a buffer for each handler", "docs/series/part-06-a-buffer-for-each-handler.md"},
		Type:   link{"informer.Subscription", "informer#Subscription"},
		Docs:   link{"From client-go: idioms", "docs/from-client-go.md#idioms"},
		shows:  two,
		acts:   []act{{text: "slow joins.", does: (*world).join}},
	},
	{
		Title:  "An event waits",
		Answer: "Nothing yet. quick has handled the change of blue; for slow it waits in the queue.",
		Text:   "The same change is an event in the queue of each handler, and each handler takes it when it is ready. So a slow handler delays only itself.",
		Ask:    "Next, blue changes four more times while slow is still in its call. The same happens to a slow handler of client-go, which appears beside ours. How many events will wait for each?",
		Series: link{"Part 4: queues of events", "docs/series/part-04-event-queues.md"},
		Type:   link{"eventqueue.Collection", "eventqueue#Collection"},
		Docs:   link{"Seeing inside: which handler lags?", "docs/see-inside.md#a-web-page"},
		shows:  two,
		acts:   []act{turn, turn, change("blue", 1)},
	},
	{
		Title:  "Events merge",
		Answer: "One in our queue, and five in client-go’s buffer.",
		Text:   "Our queue has one entry for an object, and a new change merges into it. client-go’s buffer has one entry for every change, and grows for as long as its handler is stalled. So our memory depends on the number of objects, and client-go’s on the number of changes.",
		Ask:    "Next, the slow handlers go on until nothing waits. How many calls will each need, and what will ours get for blue?",
		Series: link{"Part 6: what it loses", "docs/series/part-06-a-buffer-for-each-handler.md#what-it-loses"},
		Type:   link{"eventqueue.Compaction", "eventqueue#Compaction"},
		Docs:   link{"From client-go: what differs", "docs/from-client-go.md#what-differs"},
		shows:  three,
		acts:   []act{change("blue", 2), change("blue", 3), change("blue", 4), change("blue", 5)},
	},
	{
		Title:  "The newest state, once",
		Answer: "Ours needs one call for blue, client-go’s five. Ours gets one Modification, from the state that it handled last to the newest.",
		Text:   "client-go’s handler works through states that no longer exist. Ours skips them. A handler that must see each state chooses eventqueue.KeepAll, and has the unbounded buffer back.",
		Ask:    "Next, web changes, and slow is in that call. Meanwhile moon is created and deleted. What will slow get of moon?",
		Series: link{"Part 4: which events a queue keeps", "docs/series/part-04-event-queues.md#which-events-a-queue-keeps"},
		Type:   link{"informer.WithQueue", "informer#WithQueue"},
		Docs:   link{"From client-go: idioms", "docs/from-client-go.md#idioms"},
		shows:  three,
		acts:   []act{turn, turn, turn, turn, turn, turn},
	},
	{
		Title:  "Here and gone",
		Answer: "Nothing. The Addition and the Deletion of moon cancelled each other in its queue.",
		Text:   "slow never knew moon, so there is nothing that it could clean up. quick was ready in time and got them all. In client-go’s buffer all events of moon wait.",
		Ask:    "Next, while slow is still in its call, leaf is deleted, and another pod gets the same name. slow then goes on. Will it get a Modification of leaf?",
		Series: link{"Part 4: which events a queue keeps", "docs/series/part-04-event-queues.md#which-events-a-queue-keeps"},
		Type:   link{"eventqueue.KeepLatest", "eventqueue#KeepLatest"},
		Docs:   link{"Terms: events", "docs/reference/glossary.md#events"},
		shows:  three,
		acts:   []act{change("web", 2), create("moon"), remove("moon")},
	},
	{
		Title:  "The same name, another pod",
		Answer: "No: a Deletion of the old pod and an Addition of the new one.",
		Text:   "Each pod has a UID, and the two differ. A handler that made something for the old pod has to clean it up, so the queue merges no events of different pods.",
		Ask:    "Next, blue fails, and the handler picky returns an error for it. What will picky get after that?",
		Series: link{"Part 4: what it loses", "docs/series/part-04-event-queues.md#what-it-loses"},
		Type:   link{"eventqueue.Queue", "eventqueue#Queue"},
		Docs:   link{"Departures from client-go", "docs/reference/departures.md#from-client-go"},
		shows:  two,
		acts:   []act{remove("leaf"), create("leaf"), turn, turn, turn},
	},
	{
		Title:  "A handler fails",
		Answer: "The same event again, after a back-off.",
		Text:   "The event stays in the queue until the handler succeeds. Here the back-off is an hour, so that you can look at it; the default begins at a tenth of a second and doubles. Events of other pods do not wait.",
		Ask:    "Next, blue runs again, before the hour is over. When will picky get that, and which state will the event call the one before?",
		Series: link{"Part 4: failure and back-off", "docs/series/part-04-event-queues.md#failure-and-back-off"},
		Type:   link{"eventqueue.WithBackoff", "eventqueue#WithBackoff"},
		Docs:   link{"Controllers", "docs/under-the-hood/7-controllers.md"},
		shows:  fussy,
		acts: []act{server("blue fails.", func(w *world) error {
			return w.server.Update(pod("blue", corev1.PodFailed, 5))
		})},
	},
	{
		Title:  "News end the back-off",
		Answer: "At once. The state before is the one that picky handled without an error.",
		Text:   "The object has changed, so the next attempt may succeed. The failed state merged with the new one, and picky never gets it again.",
		Ask:    "Next, the API server ends the watch and falls silent. Then web changes. What will the handlers get?",
		Series: link{"Part 3: the real contract", "docs/series/part-03-contracts.md"},
		Type:   link{"informer.Handler", "informer#Handler"},
		Docs:   link{"Terms: events", "docs/reference/glossary.md#events"},
		shows:  fussy,
		acts:   []act{change("blue", 6)},
	},
	{
		Title:  "The watch breaks",
		Answer: "Nothing, because the informer does not know of it.",
		Text:   "The reflector has asked again and waits. The cache keeps its pods, and programs can read them. It is stale now: its web is older than that of the API server.",
		Ask:    "Next, the API server answers again. Will the change of web be missed?",
		Series: link{"Part 1: what it loses", "docs/series/part-01-list-and-watch.md#what-it-loses"},
		Type:   link{"reflector.State", "reflector#State"},
		Docs:   link{"Not synced: how to find the cause", "docs/start/not-synced.md"},
		shows:  one,
		acts:   []act{silence, change("web", 3)},
	},
	{
		Title:  "The watch resumes",
		Answer: "No. It arrives as if nothing had happened.",
		Text:   "The reflector asks for a watch from the last version that it knows, and the API server sends what happened since. No list is needed.",
		Ask:    "Next, the watch breaks again. leaf is deleted, blue changes, and the API server forgets its history, so the reflector has to list. What will quick get?",
		Series: link{"Part 1: list and watch by hand", "docs/series/part-01-list-and-watch.md#by-hand"},
		Type:   link{"reflector.Phase", "reflector#Phase"},
		Docs:   link{"The resource model", "docs/under-the-hood/1-resource-model.md"},
		shows:  one,
		acts:   []act{server("The API server answers again.", func(w *world) error { w.release(); return nil })},
	},
	{
		Title:  "The history is lost",
		Answer: "Only what differs: a Deletion of leaf whose final state is unknown, and a Modification of blue.",
		Text:   "The API server answered 410 Gone to the watch. The reflector listed all pods and compared them with the cache. For web, which did not change, there is no event.",
		Ask:    "Next, all pods are deleted. What stays in memory?",
		Series: link{"Part 1: 410, the version is too old", "docs/series/part-01-list-and-watch.md#410-the-version-is-too-old"},
		Type:   link{"store.Change", "store#Change"},
		Docs:   link{"Testing with faults", "docs/start/testing-with-faults.md"},
		shows:  one,
		acts: []act{
			silence, remove("leaf"), change("blue", 7),
			server("The API server forgets its history, and answers again.", func(w *world) error {
				if err := w.server.Compact(w.server.ResourceVersion()); err != nil {
					return err
				}
				w.release()
				return nil
			}),
		},
	},
	{
		Title:  "The end",
		Answer: "Nothing: the cache and all queues are empty.",
		Text:   "You have seen each part of an informer. The page of package inspect shows the same parts in your own programs.",
		Series: link{"Part 7: what Run starts", "docs/series/part-07-what-run-starts.md"},
		Type:   link{"inspect.Page", "informer/inspect#Page"},
		Docs:   link{"Seeing inside", "docs/see-inside.md"},
		shows:  two,
		acts:   []act{remove("web"), remove("blue"), turn, turn, turn, turn},
	},
}

func pod(name string, phase corev1.PodPhase, restarts int) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Status:     corev1.PodStatus{Phase: phase, ContainerStatuses: []corev1.ContainerStatus{{Name: name, RestartCount: int32(restarts)}}},
	}
}
