// Several runs of the same work may be under way at once, and an older one may end later. Each run takes a
// turn, and shows its result only if its turn is still the newest.

// Returns a function that begins a turn; that one returns a function that says whether the turn is the newest.
export function turns() {
  let newest = 0;
  return () => {
    const own = ++newest;
    return () => own === newest;
  };
}
