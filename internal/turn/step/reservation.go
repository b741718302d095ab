package step

// ReleaseReservation owes the end of the open reservation: nothing was used.
func (r *Record) ReleaseReservation() {
	if r.Reservation == "" {
		return
	}
	r.call("budget::release", r.Reservation, map[string]any{"reservation_id": r.Reservation}, true)
	r.Reservation = ""
}

// SettleReservation owes the end of the open reservation at an estimate.
func (r *Record) SettleReservation(costUSD float64) {
	if r.Reservation == "" {
		return
	}
	r.call("budget::settle", r.Reservation, map[string]any{
		"reservation_id": r.Reservation, "cost_usd": costUSD, "run_id": r.Run, "estimated": true,
	}, true)
	r.Reservation = ""
}

// claimReservation names the reservation that a lost model call may have left:
// it was made after the record was written.
func (r *Record) claimReservation() {
	switch {
	case r.Reservation != "" || r.State != Streaming:
	case r.Wait != nil:
		r.Reservation = ReservationID(r.Run, r.TurnCount, r.Wait.N)
	default:
		r.Reservation = ReservationID(r.Run, r.TurnCount+1, 0)
	}
}
