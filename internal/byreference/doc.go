// Package byreference decides what a cache by reference shows: the cache watches the metadata of all
// objects of a kind, and watches the objects that some label selectors select, the owned ones, whole.
// Any of these watches may be behind any other, so what one of them says about an object may be old
// news. The package is pure: it has no goroutines, clocks or I/O. Package ondemand and
// contrib/controllerruntime feed it with the commits of their caches, and do what it decides.
//
// An [Engine] learns from each commit how far a watch has come ([Engine.Observe]), and says which
// keys to decide again. [Engine.Decide] then takes the facts of a key, which are what is shown, what
// the metadata has and the newest state that an owned watch has, and returns an [Action].
//
// # The table
//
// The row is where the newest state known is, and the column what is shown. Later and earlier compare
// resource versions. "Passed" says that the metadata has received every change up to the shown version:
//
//	newest state known is        nothing shown    its object,          another UID shown
//	                                              not a later state
//	an owned watch's             ShowOwned        ShowOwned            ShowOwned if passed
//	the metadata's, and no       ShowMetadata     ShowMetadata         ShowMetadata if passed
//	  selector matches
//	the metadata's, a selector   ShowOwned        ShowOwned            ShowOwned if passed
//	  matches, an owned watch
//	  has an earlier state
//	the same, but no owned       Keep             Keep                 Keep
//	  watch has the object
//	nowhere                      Keep             Remove if passed     –
//
// In all other cases the action is Keep. A selector matches only once its first list has arrived, and
// it is compared with the labels before any transform. A state of an owned watch does not count if
// the metadata has passed it and does not have it: the object is deleted or was created again, and the
// owned watch is behind.
//
// # Rules
//
// These rules follow from the table, and the search in the tests checks each of them in every state:
//
//   - An object appears when the metadata or an owned watch has it. An owned object appears only with
//     its data.
//   - A shown state is replaced only by a later state of its UID. It leaves only when the metadata has
//     passed it, and lacks the object or has another UID. So a DELETED event of an owned watch removes
//     nothing: the object may have moved to another selector.
//   - While the newest state known is owned and its data are missing, what was shown stays.
//   - When the newest metadata match no selector, they replace the data.
//   - A wait for a version of an object ([Engine.Reached]) ends when the object is shown at that version
//     or later, or when the metadata has passed the version without the object. A selector without a
//     list holds up only the objects that it matches.
//   - After a restore of the server, the shown versions do not count any more. What the watches have is
//     right, even if it is earlier.
//
// A restore shows in a list: it is older than what its watch had received, or has an older state of an
// object. It also shows where the metadata has passed a shown version but has an earlier one.
//
// Rejected objects, which a cache received but does not show, need care: although the watch has passed
// their versions, the cache still shows what was before. So [Engine] counts them as not received.
package byreference
