"""How values lie along the Explicit axes of a mesh: found out from programs, as types say nothing of it."""
