package reflectortest

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Limits of an Event's texts, in bytes.
const (
	maxEventText = 128 // reason, action and reportingInstance
	maxEventNote = 1024
)

// validateEvent checks an Event of either group as the real server does; old is nil for a creation.
// Only an Event with an eventTime has limits. The group events.k8s.io requires the time of a new
// Event, while core/v1 accepts Events from before the field existed.
func validateEvent(obj, old object) field.ErrorList {
	event, strict := coreEvent(obj)
	if event == nil {
		return nil
	}
	errs := validateEventTexts(event, strict)
	switch before, _ := coreEvent(old); {
	case !strict:
	case before == nil:
		errs = append(errs, validateNewEvent(event)...)
	default:
		errs = append(errs, validateEventUpdate(event, before)...)
	}
	return errs
}

// coreEvent returns an Event in the form of core/v1, whose names the real server uses in its errors,
// and whether it is of the group events.k8s.io. It returns nil for another kind.
func coreEvent(obj object) (event *corev1.Event, strict bool) {
	switch e := obj.(type) {
	case *corev1.Event:
		return e, false
	case *eventsv1.Event:
		event = &corev1.Event{
			ObjectMeta: e.ObjectMeta, InvolvedObject: e.Regarding, Related: e.Related, Reason: e.Reason, Action: e.Action, Message: e.Note, Type: e.Type,
			EventTime: e.EventTime, ReportingController: e.ReportingController, ReportingInstance: e.ReportingInstance,
			Source: e.DeprecatedSource, FirstTimestamp: e.DeprecatedFirstTimestamp, LastTimestamp: e.DeprecatedLastTimestamp, Count: e.DeprecatedCount,
		}
		if e.Series != nil {
			event.Series = &corev1.EventSeries{Count: e.Series.Count, LastObservedTime: e.Series.LastObservedTime}
		}
		return event, true
	}
	return nil, false
}

func validateEventTexts(event *corev1.Event, strict bool) (errs field.ErrorList) {
	invalid := func(at *field.Path, value any, message string) {
		errs = append(errs, field.Invalid(at, value, message))
	}
	of := event.InvolvedObject.Namespace
	stray := of != event.Namespace && (of != "" || event.Namespace != metav1.NamespaceDefault)
	if !event.EventTime.IsZero() {
		stray = of == "" && event.Namespace != metav1.NamespaceDefault && event.Namespace != metav1.NamespaceSystem
	}
	if stray {
		invalid(field.NewPath("involvedObject", "namespace"), of, "does not match event.namespace")
	}
	if event.EventTime.IsZero() {
		return errs
	}
	controller := field.NewPath("reportingController")
	if !strict {
		controller = field.NewPath("reportingComponent")
	}
	if event.ReportingController == "" {
		errs = append(errs, field.Required(controller, ""))
	}
	for _, message := range utilvalidation.IsQualifiedName(event.ReportingController) {
		invalid(controller, event.ReportingController, message)
	}
	for _, text := range []struct {
		name, value string
		required    bool
		limit       int
	}{
		{"reportingInstance", event.ReportingInstance, true, maxEventText},
		{"action", event.Action, true, maxEventText},
		{"reason", event.Reason, true, maxEventText},
		{"message", event.Message, false, maxEventNote},
	} {
		if text.required && text.value == "" {
			errs = append(errs, field.Required(field.NewPath(text.name), ""))
		}
		if len(text.value) > text.limit {
			invalid(field.NewPath(text.name), "", fmt.Sprintf("can have at most %d characters", text.limit))
		}
	}
	return errs
}

func validateNewEvent(event *corev1.Event) field.ErrorList {
	errs := validateEventSeries(event)
	if event.EventTime.IsZero() {
		errs = append(errs, field.Required(field.NewPath("eventTime"), ""))
	}
	if event.Type != corev1.EventTypeNormal && event.Type != corev1.EventTypeWarning {
		errs = append(errs, field.Invalid(field.NewPath("type"), "", "has invalid value: "+event.Type))
	}
	for _, deprecated := range []struct {
		name string
		set  bool
	}{
		{"firstTimestamp", !event.FirstTimestamp.IsZero()},
		{"lastTimestamp", !event.LastTimestamp.IsZero()},
		{"count", event.Count != 0},
		{"source", event.Source != corev1.EventSource{}},
	} {
		if deprecated.set {
			errs = append(errs, field.Invalid(field.NewPath(deprecated.name), "", "needs to be unset"))
		}
	}
	return errs
}

// validateEventUpdate allows a change of nothing but the metadata and the series.
func validateEventUpdate(event, old *corev1.Event) (errs field.ErrorList) {
	if !equality.Semantic.DeepEqual(event.Series, old.Series) {
		errs = append(errs, validateEventSeries(event)...)
	}
	for _, f := range []struct {
		name     string
		now, was any
	}{
		{"involvedObject", event.InvolvedObject, old.InvolvedObject},
		{"reason", event.Reason, old.Reason},
		{"message", event.Message, old.Message},
		{"source", event.Source, old.Source},
		{"firstTimestamp", event.FirstTimestamp, old.FirstTimestamp},
		{"lastTimestamp", event.LastTimestamp, old.LastTimestamp},
		{"count", event.Count, old.Count},
		{"type", event.Type, old.Type},
		{"eventTime", metav1.NewMicroTime(event.EventTime.Truncate(time.Microsecond)), metav1.NewMicroTime(old.EventTime.Truncate(time.Microsecond))},
		{"action", event.Action, old.Action},
		{"related", event.Related, old.Related},
		{"reportingController", event.ReportingController, old.ReportingController},
		{"reportingInstance", event.ReportingInstance, old.ReportingInstance},
	} {
		errs = append(errs, validation.ValidateImmutableField(f.now, f.was, field.NewPath(f.name))...)
	}
	return errs
}

func validateEventSeries(event *corev1.Event) (errs field.ErrorList) {
	if event.Series == nil {
		return nil
	}
	if event.Series.Count < 2 {
		errs = append(errs, field.Invalid(field.NewPath("series.count"), "", "should be at least 2"))
	}
	if event.Series.LastObservedTime.IsZero() {
		errs = append(errs, field.Required(field.NewPath("series.lastObservedTime"), ""))
	}
	return errs
}
