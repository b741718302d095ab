package router

// Events of a worker, as Config.WorkerEvent hears of them.
const (
	EventConnected    = "worker_connected"
	EventUpdated      = "worker_metadata_updated"
	EventDisconnected = "worker_disconnected"
)

// event tells of a worker. The last event ends those of the worker: an announce that is still running tells nothing.
func (r *Router) event(p *peer, event string) {
	if r.cfg.WorkerEvent == nil {
		return
	}
	p.telling.Lock()
	defer p.telling.Unlock()
	if p.told {
		return
	}
	p.told = event == EventDisconnected
	r.cfg.WorkerEvent(event, p.conn.WorkerID())
}
