// Functions without a body need an assembly file beside them, and this is it.
