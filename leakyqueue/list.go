package leakyqueue

// links are an element's neighbours in one list.
type links[T any] struct{ before, after *T }

// list is a doubly linked list whose elements carry their own links, so that a push allocates
// nothing and a removal from the middle takes no search. linksOf says which links an element uses
// for this list; an element is in a list once at most.
type list[T any] struct {
	front, back *T
	n           int
	linksOf     func(*T) *links[T]
}

func (l *list[T]) push(t *T) {
	at := l.linksOf(t)
	at.before = l.back
	if l.back != nil {
		l.linksOf(l.back).after = t
	} else {
		l.front = t
	}
	l.back = t
	l.n++
}

func (l *list[T]) remove(t *T) {
	at := l.linksOf(t)
	if at.before != nil {
		l.linksOf(at.before).after = at.after
	} else {
		l.front = at.after
	}
	if at.after != nil {
		l.linksOf(at.after).before = at.before
	} else {
		l.back = at.before
	}
	*at = links[T]{}
	l.n--
}
