// Package topic is publish and subscribe, with a memory and without.
//
// # Contract
//
// [Live] serves publish and the trigger type subscribe: what is published is handed to every binding of the topic that
// is there at that moment. [Durable] serves iii::durable::publish and the trigger type durable:subscriber: every
// subscription, which is a function in a namespace, has a queue of its own and gets a copy. Several bindings of one
// subscription share its queue, so that replicas do not get a message twice.
//
// The function gets the data as it was published, without an envelope and without the metadata of publisher or trigger.
//
// # Ordering and delivery
//
// A live message is delivered at most once, in no order. A durable one is delivered at least once, from when its publish
// was answered; the copies for all subscriptions are stored in one commit where the store can do that. Order is kept only
// by subscriptions of type fifo, which take one message at a time and let none pass one that failed. What is published to
// a topic without subscribers is lost, and counted.
//
// The oldest binding of a subscription decides how its queue is worked on and which condition is asked; the next one
// takes its place when it goes. So nobody can slow down or silence the subscriber of somebody else by binding again.
//
// # For whom
//
// A function is called for the principal that published. Its binding had to be allowed to its maker, whose token must
// still stand if the binding is stored. Functions internal to the bus are out of reach, whoever published and whoever
// bound them: neither side reaches through a topic what it may not call itself. A connection may bind internal functions
// of its own.
//
// # Failure and retry
//
// A condition that answers false ends a message. A condition or a function that fails is tried again, as queue_config
// says; then the message is a dead letter of the topic. If nobody serves the function, the message waits and no attempt
// is spent. Live messages are not tried again.
//
// # Limits
//
// The name of a topic has at most [MaxName] bytes, data at most state.MaxValue, all copies together [MaxCopies], and there are at most [MaxSubscriptions] subscriptions. At most
// [MaxInFlight] live messages are with one binding; what is published meanwhile is dropped for it, and counted. When the
// last binding of a subscription is gone, what lies in its queue stays until it is bound again, but nothing is added; its
// dead letters stay until they are redriven or discarded. An empty queue without a binding is removed.
package topic
