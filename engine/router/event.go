package router

// Events of a worker, as Config.WorkerEvent hears of them.
const (
	EventConnected    = "worker_connected"
	EventUpdated      = "worker_metadata_updated"
	EventDisconnected = "worker_disconnected"
)

// event tells of a worker. The last event ends those of its connection: an announce that is still running tells nothing.
func (r *Router) event(on *link, event string) {
	if r.cfg.WorkerEvent == nil {
		return
	}
	on.telling.Lock()
	defer on.telling.Unlock()
	if on.told {
		return
	}
	on.told = event == EventDisconnected
	r.cfg.WorkerEvent(event, on.conn.WorkerID())
}
