package leakyqueue

// item is what a heap orders. It keeps its own index, so that it can be moved and removed from the
// middle; an item is in at most one heap that uses the same index.
type item[T any] interface {
	before(T) bool
	index() *int32
}

// heap is a binary min-heap. The zero heap is empty.
type heap[T item[T]] []T

func (h heap[T]) top() (t T, ok bool) {
	if len(h) == 0 {
		return t, false
	}
	return h[0], true
}

func (h *heap[T]) push(t T) {
	*h = append(*h, t)
	h.up(len(*h) - 1)
}

func (h *heap[T]) remove(t T) {
	i, last := int(*t.index()), len(*h)-1
	(*h)[i] = (*h)[last]
	var none T
	(*h)[last] = none
	*h = (*h)[:last]
	if i < last {
		*(*h)[i].index() = int32(i)
		h.fix((*h)[i])
	}
}

// fix puts t where it belongs after its order changed.
func (h *heap[T]) fix(t T) {
	h.up(int(*t.index()))
	h.down(int(*t.index()))
}

func (h heap[T]) up(i int) {
	t := h[i]
	for i > 0 {
		parent := (i - 1) / 2
		if !t.before(h[parent]) {
			break
		}
		h[i] = h[parent]
		*h[i].index() = int32(i)
		i = parent
	}
	h[i] = t
	*t.index() = int32(i)
}

func (h heap[T]) down(i int) {
	t := h[i]
	for {
		child := 2*i + 1
		if child >= len(h) {
			break
		}
		if right := child + 1; right < len(h) && h[right].before(h[child]) {
			child = right
		}
		if !h[child].before(t) {
			break
		}
		h[i] = h[child]
		*h[i].index() = int32(i)
		i = child
	}
	h[i] = t
	*t.index() = int32(i)
}
