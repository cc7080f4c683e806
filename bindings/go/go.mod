module quorate/store

go 1.23
