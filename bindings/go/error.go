package store

/*
#include "quorate_store.h"
*/
import "C"

import (
	"errors"
	"runtime"
)

// Status is how a call ended.
type Status int

// What a call may end with beside success.
const (
	StatusNotFound Status = C.QUORATE_STORE_STATUS_NOT_FOUND
	// StatusArgument is an argument that cannot be.
	StatusArgument Status = C.QUORATE_STORE_STATUS_ARGUMENT
	// StatusLocked is a folder that another process, or another Store, has open; the message names the process.
	StatusLocked Status = C.QUORATE_STORE_STATUS_LOCKED
	// StatusDamaged is something on disk that is not what was written; the message names file, offset and remedy.
	StatusDamaged Status = C.QUORATE_STORE_STATUS_DAMAGED
	// StatusForeign are files of another tool, another store, or another version of this one.
	StatusForeign Status = C.QUORATE_STORE_STATUS_FOREIGN
	// StatusSystem is something the system refused; the message says what to do.
	StatusSystem Status = C.QUORATE_STORE_STATUS_SYSTEM
	// StatusLimit is something longer, or more, than it may be.
	StatusLimit Status = C.QUORATE_STORE_STATUS_LIMIT
	// StatusStopped is an earlier error that ended writing: close the store and open it again.
	StatusStopped Status = C.QUORATE_STORE_STATUS_STOPPED
	// StatusPanicked is a fault of the library: close the store and open it again.
	StatusPanicked Status = C.QUORATE_STORE_STATUS_PANICKED
)

// Error is why a call failed.
type Error struct {
	Status  Status
	Message string
}

// Error is the message: the place, what is wrong there, and the remedy.
func (e *Error) Error() string { return e.Message }

// Is says whether both have the same status, so that errors.Is(err, &Error{Status: StatusLocked}) asks for it.
func (e *Error) Is(target error) bool {
	other, ok := target.(*Error)
	return ok && other.Status == e.Status
}

var (
	// ErrNotFound is returned where there is no such item.
	ErrNotFound = errors.New("store: no item has this key")
	// ErrClosed is returned by what was closed.
	ErrClosed = errors.New("store: it was closed")
)

// call calls a function of the library. The message is that of the thread, which the goroutine must not leave in between.
func call(function func() C.QuorateStoreStatus) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	switch status := function(); status {
	case C.QUORATE_STORE_STATUS_OK:
		return nil
	case C.QUORATE_STORE_STATUS_NOT_FOUND:
		return ErrNotFound
	default:
		message := C.GoString(C.quorate_store_error_message())
		return &Error{Status: Status(status), Message: message}
	}
}
