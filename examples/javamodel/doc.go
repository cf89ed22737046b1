// Program javamodel rebuilds in Go the example that shows the parts of the series' Java outcome. It
// puts together a reflector, an event-queue collection and a consumer, and closes them in the right
// order.
//
// The list compares each step of the Java program with this program:
//
//  1. The Java program makes a map for the known objects, and an EventQueueCollection that
//     uses the map. Here [eventqueue.New] makes both. The collection has its own cache, and
//     readers of the cache need no lock.
//  2. The Java program derives a consumer from ResourceTrackingEventQueueConsumer, which gets
//     the same map. ResourceTrackingEventQueueConsumer updates the map and then passes the event
//     to the derived class.
//     Here the cache is current before an event is queued, and an event carries its prior
//     object. A consumer is any code that ranges over the queues. The consumer below keeps
//     its own map of received events, to show that the map matches the cache.
//  3. The Java program starts the collection with the consumer, which gets a thread. Here
//     the consumer is a goroutine of this program.
//  4. The Java program makes a client and a Reflector that fills the collection and resyncs
//     it every ten seconds. It then starts the reflector and sleeps. Here the collection
//     resyncs when the program calls [eventqueue.Collection.Resync].
//  5. The Java program closes the reflector, the client and the collection, in this order.
//     Here the order is the same: end the reflector's context and wait for Run. Let the
//     consumer finish with [eventqueue.Collection.Drain]. Then close the collection, which
//     ends the consumer's loop. A client needs no closing.
//
// Package controller does steps 3 to 5 by itself.
package main
