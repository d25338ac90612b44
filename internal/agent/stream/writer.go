package stream

import "net/http"

// ContentType is the media type of a stream. It is not that of NDJSON: clients expect this one.
const ContentType = "application/json"

// SetHeader sets the header fields of a response that keep proxies from buffering, compressing and caching it.
func SetHeader(h http.Header) {
	h.Set("Content-Type", ContentType)
	h.Set("Cache-Control", "no-cache, no-transform")
	h.Set("X-Accel-Buffering", "no")
	h.Del("Content-Length")
}

// Writer writes the lines of a response. Each is one Write and one flush.
type Writer struct {
	to      http.ResponseWriter
	flusher *http.ResponseController
	buffer  []byte
}

// NewWriter returns a Writer. It begins the response with status 200.
func NewWriter(to http.ResponseWriter) *Writer {
	SetHeader(to.Header())
	to.WriteHeader(http.StatusOK)
	return &Writer{to: to, flusher: http.NewResponseController(to)}
}

// Write writes a line.
func (w *Writer) Write(l Line) error {
	line, err := l.Encode()
	if err != nil {
		return err
	}
	return w.WriteEncoded(line)
}

// WriteEncoded writes a line as Encode has returned it.
func (w *Writer) WriteEncoded(line []byte) error {
	w.buffer = append(append(w.buffer[:0], line...), '\n')
	return w.flush()
}

// KeepAlive writes an empty line, which readers skip.
func (w *Writer) KeepAlive() error {
	w.buffer = append(w.buffer[:0], '\n')
	return w.flush()
}

// flush writes the buffer and keeps no large one.
func (w *Writer) flush() error {
	const kept = 64 << 10
	_, err := w.to.Write(w.buffer)
	if err == nil {
		err = w.flusher.Flush()
	}
	if cap(w.buffer) > kept {
		w.buffer = nil
	}
	return err
}
