"""What is noted beside hits: by people, and by the server itself where it did something that a curve shows.

In the code these are timeline notes, since a store's notes are another thing: small texts, of which each of these is
one.

note        a note, its kinds, and what one may be
note_book   all of them, in the notes of the store
known_notes what a worker knows of them, and writes
note_routes `/v1/notes`
"""
